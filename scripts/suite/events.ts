/**
 * A reporter of node:test, in the process of the tests: one line of JSON for each test that has ended, and a last one
 * with the processor time of the process and of the children that it waited for.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import type { TestEvent } from 'node:test/reporters';

export interface EndedTest {
  readonly name: string;
  /** Where the test is written: a helper's file for a test that a helper makes. */
  readonly file: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Failed by its subtests alone, which have lines of their own. */
  readonly isParent: boolean;
  /** 0 for a test inside of another, which has the time already. */
  readonly ms: number;
}

export interface Spent {
  readonly cpuSeconds: number;
}

/** Linux counts in hundredths of a second. */
const TICKS = 100;

// Node takes a reporter from a default export.
export default async function* events(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue;
    const { name, file, nesting, skip, todo, details } = event.data;
    if (details.type === 'suite' && event.type === 'test:pass') continue;
    const isSkipped = isSet(skip) || isSet(todo);
    const line: EndedTest = {
      name,
      file: file ?? '',
      outcome: isSkipped ? 'skipped' : event.type === 'test:pass' ? 'passed' : 'failed',
      isParent: 'error' in details && 'failureType' in details.error && details.error.failureType === 'subtestsFailed',
      ms: nesting === 0 ? details.duration_ms : 0,
    };
    yield `${JSON.stringify(line)}\n`;
  }
  const spent: Spent = { cpuSeconds: cpuSeconds() };
  yield `${JSON.stringify(spent)}\n`;
}

function isSet(value: string | boolean | undefined): boolean {
  return value !== undefined && value !== false;
}

function cpuSeconds(): number {
  try {
    // The fields after the name, which may hold anything: utime, stime, cutime, cstime are numbers 14 to 17 of all.
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / TICKS;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
}
