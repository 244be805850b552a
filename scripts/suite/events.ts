/**
 * A reporter of node:test, in the process of the tests: one line of JSON for each test that has ended, and a last one
 * with the processor time of the process and of the children that it waited for.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import type { TestEvent } from 'node:test/reporters';

export interface EndedTest {
  readonly name: string;
  /** suite: only its time counts, that of tests inside of which all passed. */
  readonly outcome: 'passed' | 'failed' | 'skipped' | 'suite';
  /** Failed by its subtests alone, which have lines of their own. */
  readonly isParent: boolean;
  /** 0 for a test inside of another, which has the time already. */
  readonly ms: number;
}

/** A shared process comes to the tests of this file. */
export interface BegunFile {
  readonly path: string;
}

export interface Spent {
  readonly cpuSeconds: number;
}

type EndEvent = Extract<TestEvent, { readonly type: 'test:pass' | 'test:fail' }>;

/** Begins the name of a test that only says which file comes next. */
export const FILE_MARK = 'file ';

/** Linux counts in hundredths of a second. */
const TICKS = 100;

// Node takes a reporter from a default export.
export default async function* events(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue;
    const { name, nesting, skip, todo, details } = event.data;
    if (nesting === 0 && name.startsWith(`${FILE_MARK}/`)) {
      const begun: BegunFile = { path: name.slice(FILE_MARK.length) };
      yield `${JSON.stringify(begun)}\n`;
      continue;
    }
    const line: EndedTest = {
      name,
      outcome: outcomeOf(event, isSet(skip) || isSet(todo)),
      isParent: 'error' in details && 'failureType' in details.error && details.error.failureType === 'subtestsFailed',
      ms: nesting === 0 ? details.duration_ms : 0,
    };
    yield `${JSON.stringify(line)}\n`;
  }
  const spent: Spent = { cpuSeconds: cpuSeconds() };
  yield `${JSON.stringify(spent)}\n`;
}

function outcomeOf({ type, data }: EndEvent, isSkipped: boolean): EndedTest['outcome'] {
  if (type === 'test:pass' && data.details.type === 'suite') return 'suite';
  if (isSkipped) return 'skipped';
  return type === 'test:pass' ? 'passed' : 'failed';
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
