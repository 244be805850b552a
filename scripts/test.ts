/**
 * `npm test`, or `npm test -- conformance crash` for the files whose path contains one of
 * the words. test/README.md says what the flags do.
 */
import { setMaxListeners } from 'node:events';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Costs, writeCostTable, writeCosts } from './suite/costs.ts';
import { planRun } from './suite/plan.ts';
import { runSuite } from './suite/suite.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COSTS = join(ROOT, 'scripts/suite/costs.json');

/** One process. One that is known to take longer than a fraction of it gets more. */
const FILE_TIMEOUT_MS = 4 * 60_000;
/** Long forms take up to twenty times what was measured of the short ones. */
const LONG_FORM_TIMEOUT_MS = 20 * 60_000;
const FLAKY_MAX = 3;

async function main(argv: readonly string[]): Promise<number> {
  const { values, positionals: words } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      strict: { type: 'boolean', default: false },
      costs: { type: 'boolean', default: false },
    },
  });
  const tests = join(ROOT, 'dist/test');
  const timeoutMs = process.env['THOROUGH'] === '1' ? LONG_FORM_TIMEOUT_MS : FILE_TIMEOUT_MS;
  const units = planRun(tests, { words, isQuick: values.quick }, Costs.read(COSTS), timeoutMs);
  if (units.length === 0) {
    process.stderr.write(`no test file matches ${words.join(' ')}\n`);
    return 1;
  }
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  const scratch = mkdtempSync(join(tmpdir(), 'millrace-suite-'));
  const { isGood, results } = await runSuite({
    place: { tests, scratch },
    units,
    cores: availableParallelism(),
    flakyMax: values.strict ? 0 : FLAKY_MAX,
    signal: stop.signal,
    write: (text) => process.stdout.write(text),
  });
  if (values.costs && words.length === 0 && !values.quick && !stop.signal.aborted) {
    writeCosts(COSTS, results);
    writeCostTable(join(ROOT, 'test/README.md'), results);
  }
  try {
    rmdirSync(scratch);
  } catch {
    // Outputs of files that failed stay.
  }
  return isGood ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
