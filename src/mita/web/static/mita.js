// The script of the dashboard. Pages work without it; it makes them live, and adds keys.
"use strict";

const root = document.body.dataset.root;
const light = document.getElementById("live");

// ---------------------------------------------------------------- times

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const clocks = {
  minute: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }),
  second: new Intl.DateTimeFormat(undefined, { timeStyle: "medium" }),
};

function ago(then) {
  const seconds = (Date.now() - then) / 1000;
  const size = Math.abs(seconds);
  if (size < 1) return seconds < 0 ? "now" : "just now";
  let text = "";
  for (let i = 0; i < UNITS.length; i++) {
    const [unit, name] = UNITS[i];
    if (size < unit) continue;
    text = `${Math.floor(size / unit)} ${name}`;
    const smaller = UNITS[i + 1];
    const rest = smaller ? Math.floor((size % unit) / smaller[0]) : 0;
    if (size < 10 * unit && rest) text += ` ${rest} ${smaller[1]}`;
    break;
  }
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function showTimes(within = document) {
  for (const element of within.querySelectorAll("time[datetime]")) {
    const then = Date.parse(element.dateTime);
    if (Number.isNaN(then)) continue;
    const local = exact.format(then);
    if (element.classList.contains("exact")) element.textContent = local;
    else {
      element.textContent = ago(then);
      element.title = local;
    }
  }
  for (const tick of within.querySelectorAll("text[data-at]")) {  // the axes of pictures
    const clock = clocks[tick.dataset.clock];
    if (clock) tick.textContent = clock.format(Date.parse(tick.dataset.at));
  }
}

// ---------------------------------------------------------------- live parts

let reading = false;
let again = false;
let row = -1;

function isBusy(part) {
  const active = document.activeElement;
  if (active && part.contains(active) && active.matches("input:not([type=checkbox]), select, textarea")) return true;
  const selection = getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function replace(part, fresh) {
  const ticked = new Set([...part.querySelectorAll("input:checked[name=id]")].map((box) => box.value));
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  const active = part.contains(document.activeElement) ? document.activeElement : null;
  const place = active ? [...part.querySelectorAll("a, button, input")].indexOf(active) : -1;
  part.replaceChildren(...fresh.childNodes);
  for (const box of part.querySelectorAll("input[name=id]")) box.checked = ticked.has(box.value);
  part.querySelectorAll("details").forEach((one, i) => { if (i < open.length) one.open = open[i]; });
  if (place >= 0) part.querySelectorAll("a, button, input")[place]?.focus();
}

async function refresh() {
  if (reading) { again = true; return; }
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Mita-Live": "1" }, credentials: "same-origin" });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    showTimes(fresh);
    showTimes();
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = part.id && fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML && !isBusy(part)) replace(part, other);
    }
    mark();
  } catch {
    // the server is away; the next message tries again
  } finally {
    reading = false;
    if (again) { again = false; refresh(); }
  }
}

function listen() {
  if (!light || !document.querySelector("[data-live]")) return;
  const source = new EventSource(`${root}/live`);
  source.addEventListener("hello", () => { light.classList.add("on"); light.textContent = "live"; refresh(); });
  source.addEventListener("change", () => { document.body.dataset.changes = 1 + Number(document.body.dataset.changes || 0); refresh(); });
  source.addEventListener("tick", refresh);
  source.onerror = () => { light.classList.remove("on"); light.textContent = "not live"; };
  addEventListener("pagehide", () => source.close());
}

// ---------------------------------------------------------------- keys

const rows = () => [...document.querySelectorAll("[data-row]")];

function mark(move = 0) {
  const all = rows();
  if (move) row = Math.max(0, Math.min(all.length - 1, row + move));
  all.forEach((one, i) => one.classList.toggle("here", i === row));
  if (move && all[row]) {
    all[row].scrollIntoView({ block: "nearest" });
    all[row].querySelector("a")?.focus({ preventScroll: true });
  }
}

const PLACES = { o: "/", j: "/jobs", d: "/dead", f: "/flows", r: "/repeats", w: "/workers", q: "/queues", k: "/keys", a: "/audit" };
let going = false;

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const help = document.getElementById("help");
  const field = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && field) { event.target.blur(); return; }
  if (field || help.open) return;
  if (going) {
    going = false;
    if (event.key in PLACES) location.href = root + PLACES[event.key];
    return;
  }
  const here = rows()[row];
  switch (event.key) {
    case "/": document.getElementById("search")?.focus(); break;
    case "?": help.showModal(); break;
    case "j": mark(1); break;
    case "k": mark(-1); break;
    case "x": here?.querySelector("input[type=checkbox]")?.click(); break;
    case "g": going = true; break;
    default: return;
  }
  event.preventDefault();
});

// ---------------------------------------------------------------- forms

addEventListener("click", (event) => {
  if (event.target.matches("[data-tick-all]")) {
    for (const box of document.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
  }
  const button = event.target.closest("[data-confirm]");
  if (button && !confirm(button.dataset.confirm)) event.preventDefault();
});

showTimes();
// the menu of a small screen scrolls; scrollIntoView would also move where Tab begins
const current = document.querySelector(".menu [aria-current]");
if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.clientWidth / 3;
setInterval(showTimes, 5000);
listen();
