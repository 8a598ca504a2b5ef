// The buttons that copy the command before them.
document.addEventListener("click", (e) => {
  const button = e.target.closest("button.copy");
  if (button) copied(button.previousElementSibling.textContent, button);
});
