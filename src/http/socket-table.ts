/** Connections to a port by remote address, from the kernel's table; and the names of addresses that both sides agree on. */
import { readFileSync } from 'node:fs';

/** The states in which this process holds the descriptor: ESTABLISHED, and CLOSE_WAIT, which waits for it. */
const HELD = new Set(['01', '08']);
const MAPPED = '0000000000000000FFFF0000';

/** Undefined where there is no such table. */
export function connectionsTo(port: number): ReadonlyMap<string, number> | undefined {
  const counts = new Map<string, number>();
  let isKnown = false;
  for (const path of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    let text: string;
    try {
      text = readFileSync(path, 'latin1');
    } catch {
      continue;
    }
    isKnown = true;
    count(text, port.toString(16).toUpperCase().padStart(4, '0'), counts);
  }
  return isKnown ? counts : undefined;
}

/** `   1: 0100007F:1155 0100007F:C350 01 ...`, addresses as words in the order of this machine. @internal */
export function count(table: string, port: string, counts: Map<string, number>): void {
  for (const line of table.split('\n')) {
    const [, local, remote, state] = line.trim().split(/\s+/, 4);
    if (local === undefined || remote === undefined || state === undefined || !HELD.has(state)) continue;
    if (!local.endsWith(`:${port}`)) continue;
    const name = nameOf(remote.slice(0, remote.indexOf(':')));
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
}

/** The same name for 4 or 16 bytes as the library hands them over. */
export function nameOfBytes(bytes: Uint8Array): string {
  let words = '';
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    for (let i = 3; i >= 0; i--) words += (bytes[at + i] ?? 0).toString(16).toUpperCase().padStart(2, '0');
  }
  return nameOf(words);
}

/** An IPv4 address however it is written; of IPv6 the /64, because one host has all of it. */
function nameOf(words: string): string {
  if (words.length === 8) return words;
  return words.startsWith(MAPPED) ? words.slice(MAPPED.length) : words.slice(0, 16);
}
