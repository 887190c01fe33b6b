// A choice acts at once; words that are searched for, when they are entered.
document.querySelector("form.filters").addEventListener("change", event => {
  if (event.target.type !== "search") event.currentTarget.requestSubmit();
});
