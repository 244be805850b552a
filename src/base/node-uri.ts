/** The name of a node in its certificate, among the URIs of the subjectAltName. */

export function nodeUri(cluster: string, node: number): string {
  return `millrace://${encodeURIComponent(cluster)}/node/${node}`;
}

/** `names` as Node.js writes a subjectAltName: `URI:millrace://millrace/node/1, DNS:node1.example`. */
export function hasUri(names: string | undefined, uri: string): boolean {
  // Names with odd characters are written in quotes, and what is in quotes may look like another name.
  if (names === undefined || names.includes('"')) return false;
  return names.split(', ').includes(`URI:${uri}`);
}
