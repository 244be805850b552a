/**
 * The built page, as a node's admin plane and `millracectl console` serve it: one document with its script and its
 * style inside, so that one route is enough. Its policy names the hashes of both and allows nothing else.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/** The page of one node, or that of all nodes of a cluster file, which it asks through the tool's console server. */
export type ConsoleKind = 'node' | 'cluster';

/** The document in one coding. */
export interface ConsoleForm {
  readonly bytes: Uint8Array;
  /** With its quotes. */
  readonly etag: string;
}

export interface ConsolePage {
  readonly plain: ConsoleForm;
  readonly gzip: ConsoleForm;
  /** Header lines that go with the document. */
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** scripts/console-bundle.mjs writes it beside this module. */
const FILE = new URL('./page.html', import.meta.url);
const KIND = 'data-console="node"';

/** Undefined in an installation that was made without the page: everything else works there. */
export function readConsolePage(kind: ConsoleKind): ConsolePage | undefined {
  let html: string;
  try {
    html = readFileSync(FILE, 'utf8');
  } catch {
    return undefined;
  }
  return consolePage(html.replace(KIND, `data-console="${kind}"`));
}

export function consolePage(html: string): ConsolePage {
  const bytes = Buffer.from(html, 'utf8');
  const tag = createHash('sha256').update(bytes).digest('hex').slice(0, 32);
  let gzip: ConsoleForm | undefined;
  return {
    plain: { bytes, etag: `"${tag}"` },
    // Compressed for the first browser that asks, because most nodes are never asked.
    get gzip() {
      return (gzip ??= { bytes: gzipSync(bytes, { level: 9 }), etag: `"${tag}-gzip"` });
    },
    headers: [
      ['content-type', 'text/html; charset=utf-8'],
      ['content-security-policy', policyOf(html)],
      ['x-frame-options', 'DENY'],
      ['referrer-policy', 'no-referrer'],
      ['cross-origin-opener-policy', 'same-origin'],
      ['permissions-policy', 'camera=(), geolocation=(), microphone=()'],
      ['vary', 'Accept-Encoding'],
    ],
  };
}

/** Nothing but this script and this style, and requests to where the page came from. */
function policyOf(html: string): string {
  return [
    "default-src 'none'",
    `script-src ${hashesOf(html, 'script')}`,
    `style-src ${hashesOf(html, 'style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

function hashesOf(html: string, element: 'script' | 'style'): string {
  const found = [...html.matchAll(new RegExp(`<${element}[^>]*>([\\s\\S]*?)</${element}>`, 'g'))];
  const hashes = found.map(([, text = '']) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`);
  return hashes.length === 0 ? "'none'" : hashes.join(' ');
}
