// For planes under test that make no forks.
import type { Forks } from '../../src/ports.ts';

export const NO_FORKS: Forks = {
  create: () => false,
  tell: (_group, _reply, done) => done(),
};
