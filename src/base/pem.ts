/** PEM: blocks with labels, among other text. */

export interface PemBlock {
  readonly pem: string;
  readonly label: string;
}

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----(?:(?!-----)[^])*-----END \1-----/g;
/** Also when its own line is damaged. */
const MARK = /-----(?:BEGIN|END) |(?:BEGIN|END) [A-Z0-9 ]+-----/;

/**
 * The blocks of a file. Throws when one of them is cut off: OpenSSL would leave it out without a word, or with it all
 * that comes behind.
 */
export function pemBlocks(text: string): PemBlock[] {
  const blocks: PemBlock[] = [];
  let at = 0;
  const checkTo = (end: number): void => {
    const found = MARK.exec(text.slice(at, end));
    if (found === null) return;
    const line = text.slice(0, at + found.index).split('\n').length;
    throw new Error(`block ${blocks.length + 1}, at line ${line}, is cut off`);
  };
  for (const { 0: pem, 1: label = '', index } of text.matchAll(BLOCK)) {
    checkTo(index);
    blocks.push({ pem, label });
    at = index + pem.length;
  }
  checkTo(text.length);
  return blocks;
}

/** PEM of the certificates of a file, in their order. */
export function certificatesIn(text: string): string[] {
  return pemBlocks(text).flatMap(({ pem, label }) => (label === 'CERTIFICATE' ? [pem] : []));
}
