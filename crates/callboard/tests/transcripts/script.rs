//! A transcript as text: scenes under headings, steps indented by four, replies by six.

pub struct Script {
    /// Everything before the first heading.
    preamble: Vec<String>,
    pub scenes: Vec<Scene>,
}

pub struct Scene {
    pub title: String,
    pub steps: Vec<Step>,
    /// The lines as they are, with steps by index.
    lines: Vec<Line>,
}

enum Line {
    Prose(String),
    Step(usize),
}

pub struct Step {
    /// Its line in the file.
    pub line: usize,
    pub text: String,
    pub reply: Vec<String>,
}

impl Script {
    pub fn parse(text: &str) -> Self {
        let mut script = Script { preamble: Vec::new(), scenes: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            if let Some(title) = line.strip_prefix("# ") {
                let lines = vec![Line::Prose(line.into())];
                script.scenes.push(Scene { title: title.into(), steps: Vec::new(), lines });
                continue;
            }
            let Some(scene) = script.scenes.last_mut() else {
                script.preamble.push(line.into());
                continue;
            };
            scene.take(number + 1, line);
        }
        script
    }

    pub fn render(&self) -> String {
        let mut lines = self.preamble.clone();
        for scene in &self.scenes {
            for line in &scene.lines {
                match line {
                    Line::Prose(text) => lines.push(text.clone()),
                    Line::Step(index) => {
                        let step = &scene.steps[*index];
                        lines.push(format!("    {}", step.text));
                        lines.extend(step.reply.iter().map(|line| format!("      {line}")));
                    }
                }
            }
        }
        lines.join("\n") + "\n"
    }
}

impl Scene {
    fn take(&mut self, number: usize, line: &str) {
        if let (Some(reply), Some(step)) = (line.strip_prefix("      "), self.steps.last_mut()) {
            step.reply.push(reply.into());
        } else if let Some(text) = line.strip_prefix("    ") {
            self.lines.push(Line::Step(self.steps.len()));
            self.steps.push(Step { line: number, text: text.into(), reply: Vec::new() });
        } else {
            self.lines.push(Line::Prose(line.into()));
        }
    }
}
