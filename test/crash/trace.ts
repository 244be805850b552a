// Reads the output of `strace -f -tt -yy` and decides for each append whether its acknowledgement waited for the disk.
// The order of lines is the order of events: strace splits a call into "<unfinished ...>" and "resumed" as soon as
// another thread has something to report in between, so a call on one line had no rival while it ran.

export interface Call {
  readonly thread: string;
  readonly name: string;
  /** Path or socket that -yy shows for the first argument; empty when there is none. */
  readonly file: string;
  readonly fd: number;
  readonly args: string;
  readonly result: number;
  /** Line numbers of entry and return. */
  readonly start: number;
  readonly end: number;
}

const LINE = /^(?:\[pid\s+)?(\d+)\]?\s+\d\d:\d\d:\d\d\.\d+ (.*)$/;
const RESUMED = /^<\.\.\. (\w+) resumed>(.*)$/;
const UNFINISHED = ' <unfinished ...>';
/** Calls that strace changed. */
const INJECTED = / \((?:DELAYED|INJECTED)\)$/;

function completeCall(thread: string, text: string, start: number, end: number): Call | undefined {
  const open = text.indexOf('(');
  const result = /\)\s+= (-?\d+)/.exec(text.slice(Math.max(open, text.lastIndexOf(')'))));
  if (open <= 0 || result === null) return undefined;
  const args = text.slice(open + 1, text.lastIndexOf(')'));
  const file = /^(\d+)<(.*?)>(?:,|$)/.exec(args);
  return {
    thread,
    name: text.slice(0, open),
    fd: Number(file?.[1] ?? -1),
    file: file?.[2] ?? '',
    args,
    result: Number(result[1]),
    start,
    end,
  };
}

/** Calls in the order of their return. Lines of the trace that are no calls (signals, exits) are skipped. */
export function parseTrace(trace: string): Call[] {
  const calls: Call[] = [];
  const open = new Map<string, { readonly text: string; readonly line: number }>();
  trace.split('\n').forEach((line, number) => {
    const match = LINE.exec(line);
    if (match === null) return;
    const [, thread, shown] = match as unknown as [string, string, string];
    const text = shown.replace(INJECTED, '');
    if (text.endsWith(UNFINISHED)) {
      open.set(thread, { text: text.slice(0, -UNFINISHED.length), line: number });
      return;
    }
    const resumed = RESUMED.exec(text);
    const begun = resumed === null ? undefined : open.get(thread);
    if (resumed !== null && begun === undefined) return;
    open.delete(thread);
    const whole = begun === undefined ? text : `${begun.text}${resumed?.[2] ?? ''}`;
    const call = completeCall(thread, whole, begun?.line ?? number, number);
    if (call !== undefined) calls.push(call);
  });
  return calls;
}

/** When the lines were written, in ms of the day: traces of processes on one machine share its clock. */
export function timesOf(trace: string): number[] {
  let last = 0;
  return trace.split('\n').map((line) => {
    const [, hours, minutes, seconds] = /^(?:\[pid\s+)?\d+\]?\s+(\d\d):(\d\d):(\d\d\.\d+) /.exec(line) ?? [];
    if (seconds !== undefined) last = (Number(hours) * 60 + Number(minutes)) * 60_000 + Number(seconds) * 1000;
    return last;
  });
}

const WRITES = new Set(['pwrite64', 'pwritev', 'pwritev2', 'write', 'writev']);
const SYNCS = new Set(['fdatasync', 'fsync', 'msync']);
const SENDS = new Set(['sendto', 'sendmsg', 'write', 'writev']);

export interface Question {
  /** Text that is unique to this request. */
  readonly payload: string;
  /** Its acknowledgement begins so on the socket. */
  readonly answer: string;
}

export interface TraceFacts {
  /** Descriptors that were opened with O_DSYNC: a write to them is on disk when it returns. */
  readonly dsyncFds: ReadonlySet<number>;
  /** Part of the paths of the log's segment files. */
  readonly logPath: string;
  /** Where clients ask: other answers of the process are to its peers. */
  readonly port: number;
}

/**
 * Questions must have been asked one after the other on one connection. The result is one line for each that was
 * answered too early or cannot be proved: empty means that every acknowledgement waited.
 */
export function earlyAcknowledgements(
  calls: readonly Call[],
  questions: readonly Question[],
  facts: TraceFacts,
): string[] {
  const findings: string[] = [];
  let from = 0;
  for (const question of questions) {
    const finding = judge(calls, question, from, facts);
    if (typeof finding === 'string') findings.push(`${question.payload}: ${finding}`);
    else from = finding;
  }
  return findings;
}

function judge(calls: readonly Call[], question: Question, from: number, facts: TraceFacts): string | number {
  const onLog = (call: Call): boolean => call.file.includes(facts.logPath) && call.result >= 0;
  const isWrite = (call: Call): boolean => WRITES.has(call.name) && onLog(call);
  const log = calls.find((call) => call.start >= from && isWrite(call) && call.args.includes(question.payload));
  if (log === undefined) return 'its bytes were never written to the log';
  const ack = calls.find((call) => call.start >= from && isAnswer(call, question, facts.port));
  if (ack === undefined) return `no ${question.answer} left the socket`;
  if (ack.start < log.end)
    return `acknowledged at line ${ack.start + 1}, before its log write returned at line ${log.end + 1}`;
  if (facts.dsyncFds.has(log.fd)) return ack.end + 1;
  const isSync = (call: Call): boolean => SYNCS.has(call.name) && call.file === log.file && call.result === 0;
  const sync = calls.find((call) => isSync(call) && call.start >= log.end);
  if (sync === undefined || sync.end > ack.start) {
    return `acknowledged at line ${ack.start + 1}, but no sync of ${log.file} began after line ${log.end + 1} and returned before`;
  }
  return ack.end + 1;
}

function isAnswer(call: Call, question: Question, port: number): boolean {
  const isOfClient = call.file.startsWith(`TCP:[127.0.0.1:${port}->`);
  return SENDS.has(call.name) && isOfClient && call.args.includes(`"${question.answer}`);
}
