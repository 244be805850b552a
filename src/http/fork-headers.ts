/** What a PUT says of the stream that it forks: Stream-Forked-From, Stream-Fork-Offset, Stream-Fork-Sub-Offset. */
import type { ForkWish } from '../ports.ts';
import { FORK_AT_TAIL } from '../protocol/fork-command.ts';
import { OFFSET_START, parseOffset, parseUint53 } from '../protocol/header-values.ts';
import type { WriteHeaders } from './headers.ts';
import { newRoute, parseRoute } from './routes.ts';

/** How the reference writes the start of a stream; the only offset of its form that means something here. */
const REFERENCE_START = '0000000000000000_0000000000000000';

/** `wish` undefined: no fork. */
export type ParsedFork =
  | { readonly ok: true; readonly wish: ForkWish | undefined }
  | { readonly ok: false; readonly reason: string };

const route = newRoute();
const NO_FORK: ParsedFork = { ok: true, wish: undefined };
const bad = (reason: string): ParsedFork => ({ ok: false, reason });

export function parseFork({ forkedFrom, forkOffset, forkSubOffset }: WriteHeaders): ParsedFork {
  if (forkedFrom === undefined) {
    if (forkOffset === undefined && forkSubOffset === undefined) return NO_FORK;
    return bad('Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From');
  }
  const offset = readOffset(forkOffset?.trim());
  if (offset === undefined) return bad('Stream-Fork-Offset must be an offset that the server returned, or -1');
  const subOffset = readSubOffset(forkSubOffset?.trim());
  if (subOffset === undefined)
    return bad('Stream-Fork-Sub-Offset must be a whole number without a sign or leading zeros');
  if (subOffset > 0 && offset === FORK_AT_TAIL) return bad('Stream-Fork-Sub-Offset needs Stream-Fork-Offset');
  parseRoute(forkedFrom.trim(), route);
  if (route.kind === 'invalid') return bad(`Stream-Forked-From: ${route.detail}`);
  if (route.kind !== 'stream') return bad('Stream-Forked-From must be the path of a stream');
  return { ok: true, wish: { bucket: route.bucket, stream: route.stream, offset, subOffset } };
}

function readOffset(text: string | undefined): number | undefined {
  if (text === undefined) return FORK_AT_TAIL;
  if (text === REFERENCE_START) return 0;
  const parsed = parseOffset(text);
  if (!parsed.ok || parsed.value === 'now') return undefined;
  return parsed.value === OFFSET_START ? 0 : parsed.value;
}

function readSubOffset(text: string | undefined): number | undefined {
  if (text === undefined) return 0;
  if (text.length > 1 && text.startsWith('0')) return undefined;
  const parsed = parseUint53(text);
  return parsed.ok ? parsed.value : undefined;
}
