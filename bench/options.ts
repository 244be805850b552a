// The command line of the benchmark.

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

export const HELP_FLAGS = `flags:
  --seconds N      length of one run of one target in one round (default 4)
  --rounds N       rounds; targets alternate within a round (default 3)
  --before PATH    another build to compare with, a file (dist/main.js) or the folder above it: adds millrace-before and
                   millrace-cluster-before, and runs only the pairs unless --targets says more
  --targets A,B    only these: millrace reference-file reference-memory bare broadcaster redis
                   millrace-cluster etcd nats, and by name alone, to pair with those without: millrace-token
                   millrace-scoped millrace-jwt millrace-limits millrace-cluster-tls
  --cores N        shard threads of millrace (default: cores of the machine less one; a cluster's nodes have one each)
  --gib N          hot state of the backup scenarios (default: backup-load 0.5, backup-size 0.25)
  --smoke          tiny parameters: shows that everything runs, measures nothing
  --json FILE      the report as JSON, too
  --dir DIR        parent of the data folders (default: the temporary folder, unless it is on tmpfs)
  --load-threads N threads of wrk (default: a quarter of the cores; redis-benchmark keeps one)
  --pin S:L        taskset lists for servers and load generators, e.g. 0-2:3
  --profile        millrace only, under --cpu-prof; prints the top functions of each thread (default: appends-100)
  --profile-dir D  keep the .cpuprofile files there
  --server FILE    entry point of millrace (default: dist/main.js)
  --help`;

export interface Options {
  readonly scenarios: readonly string[];
  readonly seconds: number | undefined;
  readonly rounds: number | undefined;
  readonly targets: ReadonlySet<string> | undefined;
  readonly cores: number | undefined;
  readonly loadThreads: number | undefined;
  readonly gib: number | undefined;
  readonly smoke: boolean;
  readonly json: string | undefined;
  readonly dir: string | undefined;
  readonly serverCpus: string | undefined;
  readonly loadCpus: string | undefined;
  readonly profile: boolean;
  readonly profileDir: string | undefined;
  readonly server: string | undefined;
  /** Entry point of the build to compare with. */
  readonly before: string | undefined;
  readonly help: boolean;
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!(value > 0)) throw new Error(`--${name} must be a number above 0, not ${text}`);
  return value;
}

function whole(name: string, text: string | undefined): number | undefined {
  const value = positive(name, text);
  if (value !== undefined && !Number.isInteger(value)) throw new Error(`--${name} must be a whole number, not ${text}`);
  return value;
}

/** The entry point of a build that is given as its file, its dist folder or its checkout. */
function entryIn(path: string): string {
  const entries = [path, join(path, 'main.js'), join(path, 'dist', 'main.js')];
  const entry = entries.find((file) => existsSync(file) && statSync(file).isFile());
  if (entry === undefined) throw new Error(`--before: no build at ${path}: none of ${entries.join(', ')} is a file`);
  return entry;
}

export function parseOptions(argv: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      seconds: { type: 'string' },
      rounds: { type: 'string' },
      targets: { type: 'string' },
      cores: { type: 'string' },
      'load-threads': { type: 'string' },
      gib: { type: 'string' },
      smoke: { type: 'boolean', default: false },
      json: { type: 'string' },
      dir: { type: 'string' },
      pin: { type: 'string' },
      profile: { type: 'boolean', default: false },
      'profile-dir': { type: 'string' },
      server: { type: 'string' },
      before: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  const pin = values.pin?.split(':');
  if (pin !== undefined && (pin.length !== 2 || pin.includes('')))
    throw new Error('--pin wants SERVERS:LOAD, e.g. 0-2:3');
  return {
    scenarios: positionals,
    seconds: positive('seconds', values.seconds),
    rounds: whole('rounds', values.rounds),
    targets: values.targets === undefined ? undefined : new Set(values.targets.split(',')),
    cores: whole('cores', values.cores),
    loadThreads: whole('load-threads', values['load-threads']),
    gib: positive('gib', values.gib),
    smoke: values.smoke,
    json: values.json,
    dir: values.dir,
    serverCpus: pin?.[0],
    loadCpus: pin?.[1],
    profile: values.profile || values['profile-dir'] !== undefined,
    profileDir: values['profile-dir'],
    server: values.server,
    before: values.before === undefined ? undefined : entryIn(values.before),
    help: values.help,
  };
}
