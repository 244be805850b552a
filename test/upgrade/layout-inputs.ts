// Inputs that several tests of layouts share.
import type { Configuration } from '../../src/raft/types.ts';

export const IDENTITY = '0123456789abcdef0011223344556677';

/** Configurations of consensus: a change under way with all that there can be, and the usual one. */
export function configurationOf(which: 'joint' | 'plain'): Configuration {
  if (which === 'plain') return { voters: [1, 2, 3], votersOutgoing: [], learners: [] };
  const addresses = new Map([
    [4, '10.0.0.4:7000'],
    [0x0304_0506, 'ünï.example:7001'],
  ]);
  return { voters: [1, 2, 4], votersOutgoing: [1, 2, 3], learners: [0x0304_0506], addresses, identity: IDENTITY };
}
