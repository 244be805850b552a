/** The service for forks with the clock and the randomness of this process. */
import { randomBytes } from 'node:crypto';
import type { QuotaGate } from '../../gateway/quota-gate.ts';
import { ForkService } from './service.ts';

/** 48 bits: two forks of one stream would have to draw the same. */
const TOKEN_BYTES = 6;

export function openForks(gateway: QuotaGate): ForkService {
  return new ForkService({
    gateway,
    reserve: (bucket, bytes, done, denied) => gateway.reserve(bucket, bytes, done, denied),
    after: (ms, run) => void setTimeout(run, ms).unref(),
    monotonicMs: () => performance.now(),
    pieceBytes: 0,
    newToken: () => 1 + randomBytes(TOKEN_BYTES).readUIntBE(0, TOKEN_BYTES),
  });
}
