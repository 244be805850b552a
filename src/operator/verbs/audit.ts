/** The audit log of a node, as its file or the process log has it. Asks no node. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { AUDIT_COMPONENT, type AuditEntry } from '../../audit/entry.ts';
import { Failure, printable, reasonOf } from '../../nodes/failure.ts';
import { type Context, type Verb, textFlag } from '../context.ts';
import { OUTPUT, formatTable, paint, wantsJson } from '../output.ts';
import { TIME, WRITTEN_SINCE, sinceMsOf } from '../streams/since.ts';

/** Rows whose columns are as wide as the widest of them needs. */
const PAGE_ROWS = 500;

const COLUMNS = [
  { head: 'time' },
  { head: 'event' },
  { head: 'who' },
  { head: 'from' },
  { head: 'what' },
  { head: 'result' },
];

export const audit: Verb = {
  name: 'audit',
  about: 'show lines of an audit log, or of a process log that has them: who did what, from where',
  words: ['file'],
  examples: [
    'millracectl audit /var/log/millrace/audit.log --since 24h --denied',
    'millracectl audit /var/log/millrace/audit.log --who till-7 --what DELETE -o json',
  ],
  onlyShows: true,
  flags: {
    file: textFlag('FILE', 'audit.file of a node, or its log; - for stdin', { required: true }),
    since: { ...WRITTEN_SINCE, about: `only lines since: ${TIME}` },
    who: textFlag('TEXT', 'only lines with it in sender, address or id of a token'),
    what: textFlag('TEXT', 'only lines with it in method, route, path, bucket or stream'),
    denied: { kind: 'switch', about: 'only what was denied' },
    ...OUTPUT,
  },
  run: async (context) => {
    const { values, stdin, say } = context;
    const path = values.required('file');
    const input: NodeJS.ReadableStream = path === '-' ? stdin : createReadStream(path);
    // The reader of lines leaves it to others to hear of errors.
    const failed = new Promise<never>((_, reject) => input.once('error', reject));
    failed.catch(() => undefined);
    const isWanted = filterOf(context);
    const isJson = wantsJson(values);
    const table = new Table(say);
    const readAll = async (): Promise<void> => {
      for await (const line of createInterface({ input, crlfDelay: Infinity })) {
        const entry = entryOf(line);
        if (entry === undefined || !isWanted(entry)) continue;
        if (isJson) say(printable(JSON.stringify(entry)));
        else table.add(entry);
      }
    };
    try {
      await Promise.race([readAll(), failed]);
    } catch (error) {
      throw new Failure(`${path === '-' ? 'stdin' : path} cannot be read: ${reasonOf(error)}`);
    }
    if (!isJson) table.end();
  },
};

interface TimedEntry extends AuditEntry {
  readonly time: string;
  readonly component: string;
}

/** Undefined: another line, or no line of a log. */
function entryOf(line: string): TimedEntry | undefined {
  if (!line.includes(`"${AUDIT_COMPONENT}"`)) return undefined;
  try {
    const entry = JSON.parse(line) as Partial<TimedEntry> | null;
    const isAudit = entry?.component === AUDIT_COMPONENT && typeof entry.event === 'string';
    return isAudit ? { time: '', component: '', event: entry.event, who: '', what: '', ...entry } : undefined;
  } catch {
    return undefined;
  }
}

function filterOf(context: Context): (entry: TimedEntry) => boolean {
  const { values } = context;
  const sinceMs = sinceMsOf(context) ?? -Infinity;
  const who = values.text('who') ?? '';
  const what = values.text('what') ?? '';
  const isDenied = values.isSet('denied');
  const has = (text: string, parts: readonly (string | undefined)[]): boolean =>
    text === '' || parts.some((part) => String(part ?? '').includes(text));
  return (entry) =>
    (!isDenied || entry.event === 'denied') &&
    !(Date.parse(entry.time) < sinceMs) &&
    has(who, [entry.who, entry.from, entry.via, entry.token]) &&
    has(what, [entry.what, entry.path, entry.bucket, entry.stream]);
}

class Table {
  readonly #say: (line: string) => void;
  readonly #widths: number[] = [];
  #rows: string[][] = [];

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  add(entry: TimedEntry): void {
    this.#rows.push(rowOf(entry));
    if (this.#rows.length === PAGE_ROWS) this.end();
  }

  end(): void {
    const rows = this.#rows.splice(0);
    for (const line of formatTable(COLUMNS, rows, this.#widths)) this.#say(line);
  }
}

function rowOf(entry: TimedEntry): string[] {
  const { time, event, who, from, via, reason, token, repeated, status, code } = entry;
  const sender = reason === undefined ? who : `${who} (${reason})`;
  const address = via === undefined ? (from ?? '') : `${from} via ${via}`;
  const result = [
    status === 0 ? 'no answer' : status,
    code,
    repeated === undefined ? undefined : `and ${repeated} more`,
  ];
  const cells = [time, event, sender, address, [deedOf(entry), token].filter(Boolean).join(' ')];
  const shown = [...cells, result.filter((part) => part !== undefined).join(' ')].map((cell) =>
    printable(String(cell)),
  );
  return shown.map((cell, i) => (i === 1 && event === 'denied' ? paint(cell, 'red') : cell));
}

/** The path says more than the route, and a session has names only. */
function deedOf({ what, path, bucket, stream }: AuditEntry): string {
  if (path !== undefined) return `${String(what).split(' ', 1)[0]} ${path}`;
  return bucket === undefined ? what : `${what} ${bucket}/${stream ?? ''}`;
}
