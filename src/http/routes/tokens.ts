/** POST /__svc/tokens: gives the holder of a token a narrower one. */
import type { NarrowingRefusal, SignedToken } from '../../access/narrowed-tokens.ts';
import { type NarrowingWish, parseWish } from '../../access/narrowing.ts';
import type { Grant } from '../../access/scopes.ts';
import { decodeUtf8 } from '../../base/utf8.ts';
import { declaredBytes } from '../headers.ts';
import type { RequestContext } from '../request.ts';
import { countRefusal, grantOf } from '../scope-gate.ts';

type Narrow = (wish: NarrowingWish) => SignedToken | NarrowingRefusal;

/** Signs tokens for holders of others. */
export interface NarrowingPort {
  /**
   * `parent`: of the sender; undefined: all rights. Asked when the token is looked at and not when the body is there: a
   * token with all rights that was replaced in between gives nothing.
   */
  holder(parent: Grant | undefined): Narrow;
}

export function handleNarrow(call: RequestContext, port: NarrowingPort): void {
  const narrow = port.holder(grantOf(call.credentials));
  const consume = (_: RequestContext, body: Uint8Array): void => answer(call, narrow, decodeUtf8(body));
  return call.readBody(declaredBytes(call.headers.contentLength ?? ''), { consume });
}

function answer(call: RequestContext, narrow: Narrow, body: string): void {
  const parsed = parseWish(body);
  if (!parsed.ok) return call.refuse('INVALID_REQUEST', parsed.reason);
  const made = narrow(parsed.wish);
  if (made === 'ended') return call.refuse('UNAUTHORIZED', 'the token has ended');
  if ('reason' in made) {
    countRefusal(call.server.ctx.metrics.access, 'INSUFFICIENT_SCOPE');
    return call.refuse('INSUFFICIENT_SCOPE', made.reason);
  }
  const { id, token, expiresAtMs } = made;
  call.issued(id);
  return call.json(201, { id, token, expires_at: new Date(expiresAtMs).toISOString() });
}
