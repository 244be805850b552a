/** The service for forks with the clock and the randomness of this process. */
import { randomBytes } from 'node:crypto';
import type { ShardGateway } from '../../ports.ts';
import { ForkService } from './service.ts';

/** 48 bits: two forks of one stream would have to draw the same. */
const TOKEN_BYTES = 6;

export function openForks(gateway: ShardGateway): ForkService {
  return new ForkService({
    gateway,
    after: (ms, run) => void setTimeout(run, ms).unref(),
    monotonicMs: () => performance.now(),
    pieceBytes: 0,
    newToken: () => 1 + randomBytes(TOKEN_BYTES).readUIntBE(0, TOKEN_BYTES),
  });
}
