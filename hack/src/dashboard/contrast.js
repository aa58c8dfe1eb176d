// The texts of a page whose contrast to their background is below 4.5, the limit of WCAG for texts of normal size.
(() => {
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const linear = (part) => (part <= 10.31475 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const backgroundOf = (element) => {
    for (let known = element; known !== null; known = known.parentElement) {
      const color = parse(getComputedStyle(known).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (texts.currentNode.data.trim() === "" || element.getClientRects().length === 0) continue;
    const [one, two] = [parse(getComputedStyle(element).color), backgroundOf(element)].map(luminance);
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < 4.5) found.add(`${contrast.toFixed(2)} ${texts.currentNode.data.trim().slice(0, 40)}`);
  }
  return [...found].slice(0, 5);
})()
