(() => {
const labels = window.labels = new Map(), fill = CanvasRenderingContext2D.prototype.fillText, clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...at) { labels.delete(this.canvas); return clear.apply(this, at); };
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
  const m = this.measureText(text), t = this.getTransform(), corners = [];
  for (const cx of [x - m.actualBoundingBoxLeft, x + m.actualBoundingBoxRight]) for (const cy of [y - m.actualBoundingBoxAscent, y + m.actualBoundingBoxDescent]) corners.push(t.transformPoint({ x: cx, y: cy }));
  const xs = corners.map((c) => c.x), ys = corners.map((c) => c.y);
  if (text !== "") labels.set(this.canvas, [...(labels.get(this.canvas) || []), [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), text]]);
  return fill.call(this, text, x, y, ...rest);
};
})();
