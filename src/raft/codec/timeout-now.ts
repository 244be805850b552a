import type { Codec } from './codec.ts';
import type { TimeoutNow } from '../types.ts';

/** No flags, no body. */
export const timeoutNowCodec: Codec<TimeoutNow> = {
  number: 8,
  flagMask: 0,
  flags: () => 0,
  bodyBytes: () => 0,
  writeBody() {},
  readBody: (_reader, _flags, { from, to, term }) => ({ type: 'timeout-now', from, to, term }),
};
