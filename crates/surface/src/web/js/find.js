// Search as you type: a form with data-find shows its results while its fields are written. The attribute may name the
// fields that matter. Without this script the form is sent by hand.
import { morph } from "./page.js";

const WAIT_MS = 150;

for (const form of document.querySelectorAll("form[data-find]")) {
  let wait = 0;
  let asked = 0;
  form.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(async () => {
      const url = new URL(form.action);
      const { find } = form.dataset;
      const fields = [...new FormData(form)].filter(([name]) => !find || find.split(" ").includes(name));
      url.search = new URLSearchParams(fields);
      asked += 1;
      const mine = asked;
      try {
        const answer = await fetch(url, { headers: { Accept: "text/html" } });
        const text = await answer.text();
        // An answer that comes after that of a later query is old.
        if (!answer.ok || mine !== asked) return;
        history.replaceState(null, "", url);
        morph(new DOMParser().parseFromString(text, "text/html"));
      } catch {
        // The server is away; the form can be sent when it is back.
      }
    }, WAIT_MS);
  });
}
