/** Text for a window of so many columns and rows. Pure. */

const MORE = '…';

/** The last column stays free: terminals differ in what they do when it is written to. */
export function cut(line: string, columns: number): string {
  const room = Math.max(1, columns - 1);
  return line.length <= room ? line : line.slice(0, room - 1) + MORE;
}

/** Broken between words; a word that is too long is cut. Further lines are set in. */
export function wrap(line: string, columns: number): string[] {
  const INDENT = '  ';
  const room = Math.max(1, columns - 1);
  const lines: string[] = [];
  let rest = line;
  while (rest.length > room) {
    const at = rest.lastIndexOf(' ', room);
    if (at <= INDENT.length) break;
    lines.push(rest.slice(0, at));
    rest = INDENT + rest.slice(at + 1);
  }
  return [...lines, cut(rest, columns)];
}

/** At most so many lines; the last one says how many are missing. */
export function crop(lines: readonly string[], rows: number): string[] {
  if (lines.length <= rows) return [...lines];
  const kept = Math.max(0, rows - 1);
  return [...lines.slice(0, kept), `${MORE} ${lines.length - kept} more lines`];
}
