(function () {
  "use strict";
  document.querySelectorAll(".chart").forEach(function (holder) {
    var chart = JSON.parse(document.getElementById(holder.id + "-data").textContent);
    Plotly.newPlot(holder, chart.data, chart.layout, {displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"]});
  });
})();
