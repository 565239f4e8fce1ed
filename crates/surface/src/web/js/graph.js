// Arrow keys in the picture of the graph: left and right go along the edges of the task that has focus, up and down to the
// task above or below. Each task is a link, so that Tab and Enter work without this script.

const nodeOf = (element) => element?.closest("foreignObject");
const place = (node, name) => node[name].baseVal.value;
const byId = (ids) => ids.split(" ").filter(Boolean).map((id) => document.getElementById(id));

// The nearest of some nodes by height.
const nearest = (node, nodes) =>
  nodes.filter(Boolean).sort((a, b) => Math.abs(place(a, "y") - place(node, "y")) - Math.abs(place(b, "y") - place(node, "y")))[0];

const beside = (node, sign) => {
  const column = [...node.parentElement.querySelectorAll("foreignObject")].filter((other) => place(other, "x") === place(node, "x"));
  return nearest(node, column.filter((other) => sign * (place(other, "y") - place(node, "y")) > 0));
};

const TARGETS = {
  ArrowLeft: (node) => nearest(node, byId(node.dataset.deps)),
  ArrowRight: (node) => nearest(node, byId(node.dataset.next)),
  ArrowUp: (node) => beside(node, -1),
  ArrowDown: (node) => beside(node, 1),
};

document.addEventListener("keydown", (event) => {
  const target = TARGETS[event.key];
  const isPlain = !(event.ctrlKey || event.metaKey || event.altKey || event.shiftKey);
  const box = event.target.closest(".graph-box");
  if (!target || !isPlain || !box) return;
  const node = nodeOf(event.target);
  // The box itself has focus: the first arrow goes to the first task.
  const next = node ? target(node) : box.querySelector("foreignObject");
  if (!next && !node) return;
  event.preventDefault();
  next?.querySelector("a").focus();
});
