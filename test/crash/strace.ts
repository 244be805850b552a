// strace around servers: to see their calls, and to make calls fail.
import type { TestContext } from 'node:test';
import { run } from '../support/server.ts';

/** Skips the test where there is none. */
export async function hasStrace(t: TestContext): Promise<boolean> {
  if ((await run(['sh', '-c', 'command -v strace']).exited) === 0) return true;
  t.skip('needs strace: apt-get install strace');
  return false;
}

/**
 * In front of a command: strace with these flags, and its output in `file`. Calls that no flag names run at full speed;
 * but of what is injected, signals do not arrive.
 */
export function straced(file: string, ...flags: readonly string[]): string[] {
  return ['strace', '--seccomp-bpf', '-D', '-f', '-qq', ...flags, '-o', file];
}
