// Copy buttons: each copies the text of the element that it names.
"use strict";
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent.trim();
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch { // a file or a sandboxed page has no clipboard of its own
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
  }
  button.textContent = copied ? "copied" : "not allowed here";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
});
