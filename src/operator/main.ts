/** `millracectl`, also `node dist/ctl.js`: the process around `run`, with its signals and its exit code. */
import { readdirSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import process from 'node:process';
import { EXIT_FAILED } from '../nodes/failure.ts';
import { ProgressBar } from './progress-bar.ts';
import { run } from './run.ts';

/** A connection that is lost to an operator's host is an interruption too. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Ctrl-C under npm arrives from the terminal and from npm. */
const SAME_SIGNAL_MS = 500;

const { stdin, stdout, stderr, env } = process;
// Node 20 is supported as long as this version of the SDK runs on it; its daily reminder does not help.
env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
const ending = new AbortController();
let endingSinceMs = -Infinity;
// The first one lets a verb clean up behind itself; the second ends at once.
for (const signal of SIGNALS) {
  process.on(signal, () => {
    if (performance.now() - endingSinceMs < SAME_SIGNAL_MS) return;
    if (ending.signal.aborted) {
      stderr.write('millracectl: ended in the middle; status shows what is left behind\n');
      process.exit(EXIT_FAILED);
    }
    endingSinceMs = performance.now();
    ending.abort();
  });
}
// `run` reports the failures that matter.
stdout.on('error', () => undefined);
stderr.on('error', () => undefined);
const progress = new ProgressBar(stderr, env);
process.on('exit', () => progress.end());
const io = { stdin, stdout, stderr, env, signal: ending.signal, giveWay };
void run(process.argv.slice(2), io, progress).then((code) => {
  // Not process.exit: what was written to a pipe still has to go out.
  process.exitCode = code;
  for (const signal of SIGNALS) process.removeAllListeners(signal);
});

/** Lowers the priority of all threads. Without /proc nothing changes. */
function giveWay(): void {
  try {
    // On Linux a priority belongs to a thread, and those of the engine have started already.
    for (const thread of readdirSync('/proc/self/task')) setPriority(Number(thread), constants.priority.PRIORITY_LOW);
  } catch {
    // A thread has ended meanwhile, most likely.
  }
}
