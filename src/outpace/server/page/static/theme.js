// Light, dark, or as the system is; set before anything is drawn.
(function () {
  const root = document.documentElement;
  const order = ["system", "light", "dark"];
  let now = "system";
  try {
    now = localStorage.getItem("outpace-theme") || "system";
  } catch {
    // storage may be forbidden; the choice then lasts as long as the page
  }
  const show = () => {
    if (now === "system") delete root.dataset.theme;
    else root.dataset.theme = now;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${now}`;
  };
  show();
  document.addEventListener("DOMContentLoaded", () => {
    show();
    document.getElementById("theme").addEventListener("click", () => {
      now = order[(order.indexOf(now) + 1) % order.length];
      try {
        localStorage.setItem("outpace-theme", now);
      } catch {
        // as above
      }
      show();
    });
  });
})();
