// Runs the official Durable Streams suite against a server, and compares the outcome with `exceptions.txt`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPO_ROOT } from './paths.ts';
import { removeFolder, run, temporaryFolder, within } from './server.ts';

/** Number for version 0.3.6 with subscriptions on. A suite that finds fewer tests proves less than it says. */
export const TESTS_EXPECTED = 338;
/** About 20 s against a healthy server; a server that hangs must not hang the run. */
const SUITE_TIMEOUT_MS = 480_000;
/** Configuration of a server under test: its webhook receivers are on this machine. */
export const SUITE_TOML = '[subscriptions]\nlocal_webhooks = true\n';
const FOLDER = join(REPO_ROOT, 'test', 'conformance');

export interface Outcome {
  readonly name: string;
  readonly passed: boolean;
  /** First line of the failure. */
  readonly reason: string;
}

interface VitestReport {
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly ancestorTitles: readonly string[];
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

export function exceptions(): string[] {
  const lines = readFileSync(join(FOLDER, 'exceptions.txt'), 'utf8').split('\n');
  return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
}

/** `leftOut`: titles of tests that are not run. */
export async function runSuite(baseUrl: string, leftOut: readonly string[] = []): Promise<Outcome[]> {
  const scratch = temporaryFolder('vitest');
  const reportFile = join(scratch, 'report.json');
  const vitest = join(REPO_ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const command = [process.execPath, vitest, 'run', '--no-coverage', '--config', join(FOLDER, 'vitest.config.mjs')];
  command.push('--reporter=json', `--outputFile=${reportFile}`);
  if (leftOut.length > 0) command.push(`--testNamePattern=^(?!.*(${leftOut.map(literally).join('|')})$)`);
  const suite = run(command, { CONFORMANCE_TEST_URL: baseUrl, CONFORMANCE_CACHE_DIR: join(scratch, 'cache') });
  try {
    // Its exit code only says that something failed, which is for the list to judge.
    await within(suite.exited, SUITE_TIMEOUT_MS, 'the official suite');
    const report = JSON.parse(readFileSync(reportFile, 'utf8')) as VitestReport;
    const broken = report.testResults.find((file) => file.assertionResults.length === 0);
    assert(broken === undefined, `the suite did not load: ${broken?.message}`);
    return report.testResults.flatMap((file) =>
      file.assertionResults
        .filter(({ title }) => !leftOut.includes(title))
        .map((result) => ({
          name: [...result.ancestorTitles, result.title].join(' > '),
          passed: result.status === 'passed',
          reason: (result.failureMessages[0] ?? `status ${result.status}`).split('\n')[0] ?? '',
        })),
    );
  } catch (error) {
    throw new Error(`vitest gave no report: ${suite.output().slice(-4000)}`, { cause: error });
  } finally {
    suite.child.kill('SIGKILL');
    removeFolder(scratch);
  }
}

const literally = (text: string): string => text.replaceAll(/[^\w ]/g, '\\$&');

/** The contradictions to the list, one line each. */
export function contradictions(outcomes: readonly Outcome[], listed: readonly string[]): string[] {
  const names = new Set(outcomes.map((outcome) => outcome.name));
  const mayFail = new Set(listed);
  return [
    ...listed.filter((name) => !names.has(name)).map((name) => `listed, but the suite has no such test: ${name}`),
    ...outcomes
      .filter((o) => o.passed && mayFail.has(o.name))
      .map((o) => `listed, but passes (take it off): ${o.name}`),
    ...outcomes.filter((o) => !o.passed && !mayFail.has(o.name)).map((o) => `fails: ${o.name}\n    ${o.reason}`),
  ];
}
