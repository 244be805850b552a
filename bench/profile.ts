// Where the time goes, per thread: reads the .cpuprofile files that `node --cpu-prof` leaves, one per isolate.

import { readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Lines per thread: below that the shares are noise. */
const FUNCTIONS_MAX = 25;

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
}

interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** node names the files CPU.<date>.<time>.<pid>.<thread>.<sequence>.cpuprofile; thread 0 is the main thread. */
function threadOf(file: string): number {
  return Number(basename(file).split('.').at(-3));
}

/** Self time in microseconds per function. A sample's delta is the time since the sample before it. */
function selfTimes(profile: CpuProfile): Map<string, number> {
  const names = new Map<number, string>();
  for (const { id, callFrame } of profile.nodes) {
    const place =
      callFrame.url === '' ? '' : ` ${callFrame.url.split('/').slice(-2).join('/')}:${callFrame.lineNumber + 1}`;
    names.set(id, `${callFrame.functionName || '(anonymous)'}${place}`);
  }
  const times = new Map<string, number>();
  profile.samples.forEach((id, index) => {
    const name = names.get(id) ?? '(unknown)';
    times.set(name, (times.get(name) ?? 0) + (profile.timeDeltas[index] ?? 0));
  });
  return times;
}

/** The nodes of a cluster are separate processes. */
function processOf(file: string): number {
  return Number(basename(file).split('.').at(-4));
}

function renderThread(file: string): string {
  const times = selfTimes(JSON.parse(readFileSync(file, 'utf8')) as CpuProfile);
  const totalUs = [...times.values()].reduce((sum, us) => sum + us, 0);
  const idleUs = times.get('(idle)') ?? 0;
  times.delete('(idle)');
  const busyUs = totalUs - idleUs;
  const thread = threadOf(file);
  const top = [...times].sort((a, b) => b[1] - a[1]).slice(0, FUNCTIONS_MAX);
  const lines = top.map(
    ([name, us]) =>
      `  ${((100 * us) / busyUs).toFixed(1).padStart(5)} %  ${(us / 1e3).toFixed(0).padStart(7)} ms  ${name}`,
  );
  const title = `process ${processOf(file)}, ${thread === 0 ? 'main thread' : `worker ${thread}`}: ${(busyUs / 1e6).toFixed(1)} s busy of ${(totalUs / 1e6).toFixed(1)} s; share of busy time, self time`;
  return [`\n${title}`, ...lines].join('\n');
}

/** One block per thread, main thread first, in the order in which the processes were started. */
export function renderProfiles(dir: string): string {
  const files = readdirSync(dir)
    .filter((name) => name.endsWith('.cpuprofile'))
    .map((name) => join(dir, name))
    .sort((a, b) => processOf(a) - processOf(b) || threadOf(a) - threadOf(b));
  if (files.length === 0) return `no profile in ${dir}: did the server stop in order on SIGTERM?`;
  return files.map(renderThread).join('\n');
}
