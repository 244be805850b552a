/**
 * `npm run chaos -- --minutes 60`: real nodes under faults and clients, for as long as it is told to. Prints its seed
 * first and its report last, and ends with 1 when a promise was broken. `--seed N` repeats the faults of a run,
 * `--nodes 5` takes more nodes, `--only WORD,WORD` takes kinds of faults, `--out FOLDER` writes the report and, after
 * a violation, the ends of the nodes' logs. Ctrl-C ends the faults; the run is judged nevertheless.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { seedFromEnvironment } from '../support/random.ts';
import { type ChaosOptions, chaos } from './chaos.ts';
import { circumstances, commandOf, progressOf, reportOf } from './report.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    nodes: { type: 'string', default: '3' },
    only: { type: 'string' },
    out: { type: 'string' },
  },
});

const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => ending.abort());

const options: ChaosOptions = {
  seed: values.seed === undefined ? seedFromEnvironment() : Number(values.seed),
  nodes: Number(values.nodes),
  minutes: Number(values.minutes),
  only: values.only?.split(',') ?? [],
  signal: ending.signal,
  onFault: (strike, world) => void process.stdout.write(progressOf(strike, world)),
};
for (const [name, value] of Object.entries({ minutes: options.minutes, seed: options.seed, nodes: options.nodes })) {
  if (!Number.isFinite(value)) throw new Error(`--${name} is a number, not ${values[name as 'minutes']}`);
}
process.stdout.write(`seed ${options.seed}\n${commandOf(options)}\n`);
const around = circumstances(options);
const result = await chaos(options);
const report = reportOf(around, result);
process.stdout.write(`\n${report}`);
if (values.out !== undefined) {
  mkdirSync(values.out, { recursive: true });
  writeFileSync(join(values.out, `chaos-${options.seed}.md`), report);
  if (result.world.violations.length > 0) writeFileSync(join(values.out, `chaos-${options.seed}.log`), result.logs);
}
process.exit(result.world.violations.length === 0 ? 0 : 1);
