/**
 * The header Forwarded (RFC 7239), whole: a text that begins in the part of a stranger may end in that of a proxy, and only
 * from its beginning can quotes be told. Whatever is malformed anywhere says nothing.
 */

/** Longer than any row of proxies writes. */
const FORWARDED_CHARS_MAX = 4096;

const TOKEN = String.raw`[!#$%&'*+.^_\x60|~\w-]+`;
/**
 * A parameter or nothing, and what ends it: `;` goes on with the element, `,` with the next one. Blanks belong to one
 * part alone: a stranger's row of them that could be split anywhere would take the thread for milliseconds.
 */
const PARAMETER = String.raw`[ \t]*(?:(${TOKEN})=(?:(${TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*)?([;,]|$)`;

/** The `for` of each element, the last proxy's first; empty where it has none. Malformed: no elements. */
export function forwardedNodes(header: string): readonly string[] {
  if (header.length > FORWARDED_CHARS_MAX) return [];
  const nodes: string[] = [];
  let node: string | undefined;
  const parameter = new RegExp(PARAMETER, 'y');
  for (;;) {
    const match = parameter.exec(header);
    if (match === null) return [];
    const [, name, token, quoted, end] = match;
    if (name?.toLowerCase() === 'for') {
      if (node !== undefined) return [];
      node = token ?? quoted?.replaceAll(/\\(.)/g, '$1') ?? '';
    }
    if (end === ';') continue;
    nodes.unshift(node ?? '');
    node = undefined;
    if (end === '') return nodes;
  }
}
