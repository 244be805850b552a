/**
 * Which answers to reads caches may keep when http.read_cache allows any. Bytes at an offset never change, so an answer that has bytes
 * from a position that the URL names is good for as long as the stream is: what came later is found at the next offset, another
 * URL. What has no bytes says "nothing yet" and must not be kept, but for the end of a closed stream, which is final.
 *
 * Live readers that wait at one URL share an answer too: with bytes as above, and for a moment without. The cursor that
 * comes with it makes the next URL of all of them the same again, and another one than before.
 */
import { REPLY_CLOSED, type Reply } from '../protocol/reply.ts';
import { READ_OFFSET, READ_RECORD } from '../protocol/request.ts';
import type { ReadCache, ReadParams } from './contract.ts';

/** What an answer says to caches; `read` and `turn` mean what http.read_cache makes of them. */
export type CacheControl = 'no-store' | 'no-cache' | 'public' | 'read' | 'turn';

/** As the protocol recommends. */
const READ_SECONDS = 'max-age=60, stale-while-revalidate=300';
/** Long enough for whoever waits at a lock of a cache to see it (nginx looks twice a second), short enough to miss nothing. */
const TURN_SECONDS = 'max-age=2';

export function cacheOfRead(params: ReadParams, reply: Reply): CacheControl {
  if (params.mode !== READ_OFFSET && params.mode !== READ_RECORD) return 'no-store';
  return reply.nextOffset > reply.startOffset || reply.has(REPLY_CLOSED) ? 'read' : 'no-store';
}

/** Of a long-poll that brought nothing. */
export function cacheOfTurn(params: ReadParams): CacheControl {
  return params.mode === READ_OFFSET || params.mode === READ_RECORD ? 'turn' : 'no-store';
}

/** The two values of Cache-Control. A private cache has one reader: there is nothing to share between turns. */
export function cacheValues(readCache: ReadCache): { readonly read: string; readonly turn: string } {
  if (readCache === 'none') return { read: 'no-store', turn: 'no-store' };
  return {
    read: `${readCache}, ${READ_SECONDS}`,
    turn: readCache === 'public' ? `public, ${TURN_SECONDS}` : 'no-store',
  };
}
