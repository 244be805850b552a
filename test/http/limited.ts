// A client plane with limits: the token `busy` has one request, and no bucket has room for a live reader.
import { LimitBook } from '../../src/access/limit-book.ts';
import { NO_LIMITS } from '../../src/base/use-limits.ts';
import { bookOf, listed, scopeOf } from '../support/scoped-tokens.ts';

export const LIMITED = {
  clientTokens: bookOf(['busy', 'reader'].map((id) => listed(id, [scopeOf('b', 's', 'read')]))),
  limits: new LimitBook({
    node: { ...NO_LIMITS, bucket: { live_readers: 0 } },
    tokens: [['busy', { requests_per_second: 1 }]],
  }),
  monotonicMs: () => 0,
};

export async function secondOf<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  await ask();
  return await ask();
}
