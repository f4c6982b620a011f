// Return what is wrong in a page's layout: texts that lie over each other, texts that are cut, and what is wider
// than its window, or than the part of it that a reader can scroll.
() => {
    const wrong = [];
    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth) {
        const beyond = [...document.body.querySelectorAll("*")].find(
            each => each.getBoundingClientRect().right > page.clientWidth + 1 && !scrolls(each)
        );
        wrong.push(`the page is ${page.scrollWidth} wide in ${page.clientWidth}: ${beyond?.outerHTML.slice(0, 200)}`);
    }

    function scrolls(element) {
        for (let each = element.parentElement; each; each = each.parentElement) {
            if (each !== document.body && each !== page && /auto|scroll/.test(getComputedStyle(each).overflowX)) return true;
        }
        return false;
    }

    // The part of a box that the boxes around it let through.
    function visible(box, element) {
        let { left, top, right, bottom } = box;
        let cut = false;
        for (let each = element; each && each !== document.body; each = each.parentElement) {
            const style = getComputedStyle(each);
            if (style.display === "contents" || style.overflowX === "visible") continue;
            if (each instanceof SVGElement && !(each instanceof SVGSVGElement)) continue;
            const around = each.getBoundingClientRect();
            const inside = {
                left: Math.max(left, around.left),
                right: Math.min(right, around.right),
                top: Math.max(top, around.top),
                bottom: Math.min(bottom, around.bottom),
            };
            const lost = right - left - (inside.right - inside.left) > 1 || bottom - top - (inside.bottom - inside.top) > 4;
            if (lost && /hidden|clip/.test(style.overflowX)) cut = true;
            ({ left, top, right, bottom } = inside);
        }
        return { left, top, right, bottom, cut };
    }

    const words = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (walker.nextNode()) {
        const node = walker.currentNode;
        const parent = node.parentElement;
        const text = node.data.trim();
        if (!text || parent.closest("script, style, template, title, desc")) continue;
        if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
        range.selectNodeContents(node);
        for (const box of range.getClientRects()) {
            const seen = visible(box, parent);
            if (seen.right - seen.left < 2 || seen.bottom - seen.top < 2) continue; // for screen readers alone
            if (seen.cut) wrong.push(`cut: ${text.slice(0, 80)}`);
            const height = seen.bottom - seen.top; // of the line: letters take its middle
            words.push({ text, node, ...seen, top: seen.top + height / 4, bottom: seen.bottom - height / 4 });
        }
    }
    words.sort((one, other) => one.top - other.top);
    words.forEach((one, index) => {
        for (let next = index + 1; next < words.length && words[next].top < one.bottom - 1; next++) {
            const other = words[next];
            if (one.node !== other.node && one.left < other.right - 1 && other.left < one.right - 1) {
                wrong.push(`over each other: ${one.text.slice(0, 80)} | ${other.text.slice(0, 80)}`);
            }
        }
    });
    return [...new Set(wrong)].slice(0, 20);
}
