// Gives the focus to each control. Returns those that look the same with it: nobody would see where they are.
() => {
  const unseen = [];
  const looks = (element) => {
    const { outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor } = getComputedStyle(element);
    return JSON.stringify([outlineStyle === "none" ? "" : outlineWidth + outlineColor + outlineStyle, boxShadow, borderColor, backgroundColor]);
  };
  const kinds = new Set();
  for (const one of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
    if (!one.checkVisibility() || one.closest("dialog:not([open])")) continue;
    const kind = `${one.tagName} ${one.className} ${one.parentElement.className}`;
    if (kinds.has(kind)) continue;
    kinds.add(kind);
    document.activeElement?.blur();
    const before = looks(one);
    one.focus({ preventScroll: true });
    if (document.activeElement === one && looks(one) === before) unseen.push(one.outerHTML.slice(0, 140));
  }
  return unseen;
}
