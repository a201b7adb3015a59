(w) => {
  const found = new Set(), near = (a, b) => Math.min(a[2], b[2]) - Math.max(a[0], b[0]) > 1 && Math.min(a[3], b[3]) - Math.max(a[1], b[1]) > 1;
  let count = 0;
  for (const [canvas, boxes] of w.labels) {
    if (!canvas.isConnected || !canvas.clientWidth) continue;
    count += boxes.length;
    const at = canvas.getBoundingClientRect(), card = canvas.closest(".card").getBoundingClientRect();
    if (at.left < card.left || at.right > card.right + 1) found.add("a chart leaves its card");
    boxes.forEach((a, i) => {
      if (a[0] < -1 || a[1] < -1 || a[2] > canvas.width + 1 || a[3] > canvas.height + 1) found.add(a[4] + " is cut");
      for (const b of boxes.slice(0, i)) if (near(a, b)) found.add(a[4] + " is on " + b[4]);
    });
  }
  return { count, found: [...found] };
}
