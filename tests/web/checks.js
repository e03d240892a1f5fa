// What a page must fulfil so that everybody can use it. Returns a list of [check, element, text].
() => {
  const faults = [];
  const fault = (check, element, text = "") => faults.push([check, element ? shown(element) : "", text]);
  const shown = (element) => {
    const html = element.outerHTML.replace(/\s+/g, " ");
    return html.length > 140 ? `${html.slice(0, 140)}…` : html;
  };
  const all = (selector) => [...document.querySelectorAll(selector)];
  const style = (element, part) => getComputedStyle(element, part);
  const isHidden = (element) => !element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const isUnseen = (element) => {  // for screen readers only, or a link that appears when it has the focus
    const box = element.getBoundingClientRect();
    return box.width <= 1 || box.height <= 1 || box.right <= 0 || box.bottom + scrollY <= 0;
  };

  // ------------------------------------------------------------ structure
  if (!document.documentElement.lang) fault("language", document.documentElement.firstElementChild);
  if (!document.title.trim()) fault("title");
  const headlines = all("h1").filter((one) => !isHidden(one));
  if (headlines.length !== 1) fault("one h1", headlines[1], `${headlines.length}`);
  let level = 0;
  for (const one of all("main h1, main h2, main h3, main h4, main h5").filter((one) => !isHidden(one))) {
    if (Number(one.tagName[1]) > level + 1) fault("heading level", one, `after h${level}`);
    level = Number(one.tagName[1]);
    if (!one.textContent.trim()) fault("empty heading", one);
  }
  if (all("main, [role=main]").length !== 1) fault("one main");
  if (all("body > header, [role=banner]").length !== 1) fault("one banner");
  const marks = all("nav, section[aria-label], section[aria-labelledby], aside, [role=region], [role=navigation]").filter((one) => !isHidden(one));
  for (const one of all("nav")) if (!named(one)) fault("landmark name", one);
  const names = marks.map((one) => `${one.tagName} ${named(one)}`);
  marks.forEach((one, i) => { if (names.indexOf(names[i]) !== i) fault("landmark name twice", one, names[i]); });

  // ------------------------------------------------------------ ids and what names them
  const ids = all("[id]").map((one) => one.id);
  ids.forEach((id, i) => { if (ids.indexOf(id) !== i) fault("id twice", document.getElementById(id), id); });
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"])
    for (const one of all(`[${attribute}]`))
      for (const id of one.getAttribute(attribute).split(/\s+/))
        if (!document.getElementById(id)) fault("unknown id", one, `${attribute}=${id}`);
  const ROLES = ["alert", "alertdialog", "banner", "button", "cell", "checkbox", "columnheader", "complementary",
    "contentinfo", "dialog", "figure", "form", "grid", "group", "heading", "img", "link", "list", "listitem", "log",
    "main", "meter", "navigation", "none", "note", "presentation", "progressbar", "region", "row", "rowgroup",
    "rowheader", "search", "separator", "status", "switch", "tab", "table", "tablist", "tabpanel", "timer", "toolbar", "tooltip"];
  for (const one of all("[role]")) if (!ROLES.includes(one.getAttribute("role"))) fault("role", one);
  for (const one of all("[tabindex]")) if (one.tabIndex > 0) fault("tabindex", one);
  for (const one of all("[aria-hidden=true] a[href], [aria-hidden=true] button, [aria-hidden=true] input")) fault("hidden control", one);

  // ------------------------------------------------------------ names
  function text(element) {
    if (element.nodeType === Node.TEXT_NODE) return element.data;
    if (element.nodeType !== Node.ELEMENT_NODE || element.getAttribute("aria-hidden") === "true") return "";
    if (element.tagName === "IMG") return element.alt;
    if (element.getAttribute("aria-label")) return element.getAttribute("aria-label");
    return [...element.childNodes].map(text).join(" ");
  }
  function named(element) {
    const by = element.getAttribute("aria-labelledby");
    const found = by
      ? by.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ")
      : element.getAttribute("aria-label")
        || [...(element.labels ?? [])].map((label) => {
          const copy = label.cloneNode(true);
          copy.querySelectorAll("select, textarea, option").forEach((inner) => inner.remove());
          return text(copy);
        }).join(" ")
        || (element.matches("input[type=submit]") ? element.value : "")
        || (element.matches("a, button, summary, [role=button], [role=link], h1, h2, h3") ? text(element) : "")
        || element.querySelector(":scope > title")?.textContent
        || element.getAttribute("alt") || element.getAttribute("title") || "";
    return found.replace(/\s+/g, " ").trim();
  }
  const controls = all("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=link], [tabindex='0']")
    .filter((one) => !isHidden(one) && !one.closest("dialog:not([open])"));
  for (const one of controls) {
    if (!named(one) && one.tabIndex >= 0 && !one.matches("div, pre, section")) fault("name", one);
    if (one.matches("input, select, textarea") && !one.labels?.length && !one.getAttribute("aria-label") && !one.getAttribute("aria-labelledby")) fault("label", one);
  }
  for (const one of all("a[href='#'], a[href=''], a[href^='javascript:' i]")) fault("link to nowhere", one);
  for (const one of all("img:not([alt])")) fault("picture", one);
  for (const one of all("svg")) {
    if (one.closest("[aria-hidden=true]") || one.parentElement.closest("svg")) continue;
    if (!["img", "figure", "group", "list"].includes(one.getAttribute("role")) || !named(one)) fault("picture", one);
  }
  for (const one of all("progress, meter, [role=progressbar]")) if (!named(one)) fault("name", one);
  for (const one of all("table")) {
    if (!one.querySelector("th")) fault("table head", one);
    for (const cell of one.querySelectorAll("th")) if (!cell.scope) fault("scope", cell);
  }
  for (const one of all("ul, ol")) for (const inner of one.children) if (inner.tagName !== "LI") fault("list", one, inner.tagName);
  for (const one of all("dl > *")) if (!["DT", "DD", "DIV"].includes(one.tagName)) fault("list", one);
  for (const one of all("time:not([datetime])")) fault("time", one);

  // ------------------------------------------------------------ colours
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  function rgba(colour) {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  }
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  function ground(element) {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(style(one).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    const canvasColour = rgba(style(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#fff");
    return layers.reverse().reduce((below, layer) => over(layer, below), canvasColour);
  }
  const light = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  function ratio(front, back) {
    const [a, b] = [luminance(over(front, back)), luminance(back)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }
  function opacity(element) {
    let whole = 1;
    for (let one = element; one; one = one.parentElement) whole *= Number(style(one).opacity);
    return whole;
  }
  function contrast(element, colour, needed, what) {
    const front = [...rgba(colour)];
    front[3] *= opacity(element);
    const found = ratio(front, ground(element));
    if (found < needed - 0.005) fault("contrast", element, `${what} ${found.toFixed(2)} of ${needed}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(element) || isHidden(element) || isUnseen(element)) continue;
    if (element.closest(":disabled, script, style, title, option")) continue;
    seen.add(element);
    const font = style(element), size = parseFloat(font.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(font.fontWeight) >= 700);
    const inDrawing = element.closest("svg") && element.namespaceURI.endsWith("svg");
    contrast(element, inDrawing ? font.fill : font.color, isLarge ? 3 : 4.5, "text");
  }
  for (const one of all("input:not([type=hidden], [type=checkbox]), select, textarea")) {
    if (isHidden(one) || isUnseen(one)) continue;
    contrast(one, style(one).color, 4.5, "text of a field");
    if (one.placeholder) contrast(one, style(one, "::placeholder").color, 4.5, "placeholder");
    const border = rgba(style(one).borderTopColor), back = ground(one.parentElement);
    if (ratio(border, back) < 3 && ratio(ground(one), back) < 3) fault("contrast", one, `border ${ratio(border, back).toFixed(2)} of 3`);
  }
  for (const one of all("svg.icon")) if (!isHidden(one) && !isUnseen(one)) contrast(one, style(one).stroke, 3, "icon");

  // ------------------------------------------------------------ sizes
  for (const one of controls) {
    if (isUnseen(one)) continue;
    const around = one.matches("input[type=checkbox], input[type=radio]") && one.closest("label") ? one.closest("label") : one;
    const box = around.getBoundingClientRect();
    const isInText = one.matches("a") && style(one).display === "inline"
      && [...one.parentElement.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if ((box.height < 23.5 || box.width < 23.5) && !isInText && !one.closest("svg"))
      fault("target", one, `${box.width.toFixed(0)} x ${box.height.toFixed(0)}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) {
    const widest = all("main *, header *").filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, pre, .menu"));
    fault("sideways scroll", widest[0], `${wide} of ${innerWidth}`);
  }

  // ------------------------------------------------------------ what the content policy would block
  for (const one of all("[style]")) fault("inline style", one);
  for (const one of all("body *"))
    for (const attribute of one.attributes) if (attribute.name.startsWith("on")) fault("inline script", one);
  return faults;
}
