/** How a command ends when it does not end well: an exit code and one sentence, which quotes strangers safely. */

export type ExitCode = 0 | 1 | 2 | 3;

export const EXIT_DONE = 0;
export const EXIT_FAILED = 1;
/** A bad command line, or an operation that was begun and given up. */
export const EXIT_ABORTED = 2;
export const EXIT_NOT_THERE = 3;

/** Shown by --help and in the manual. */
export const EXIT_CODES: readonly { readonly code: ExitCode; readonly meaning: string }[] = [
  { code: EXIT_DONE, meaning: 'done' },
  { code: EXIT_FAILED, meaning: 'it failed, and the last line on stderr says why' },
  { code: EXIT_ABORTED, meaning: 'a wrong command line, or begun, given up (Ctrl-C) and cleaned up' },
  { code: EXIT_NOT_THERE, meaning: 'the stream, bucket or context is not there' },
];

/** The message is shown as it is: one sentence without a stack. */
export class Failure extends Error {
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = EXIT_FAILED, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** The command line itself is wrong. */
export class UsageError extends Failure {
  constructor(message: string) {
    super(message, EXIT_ABORTED);
  }
}

/** The stream, bucket or context of the command does not exist. */
export class NotThere extends Failure {
  constructor(message: string) {
    super(message, EXIT_NOT_THERE);
  }
}

/** Ctrl-C or SIGTERM. */
export class Interrupted extends Failure {
  constructor() {
    super('interrupted', EXIT_ABORTED);
  }
}

/** Describes a thrown error in one line. Errors of files lose the path, because the sentence has it already. */
export function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const line = (text.split('\n')[0] ?? '').trim();
  return /^E[A-Z]+: ([^,]+), [a-z]+( '|$)/.exec(line)?.[1] ?? line;
}

/** Names come from strangers: characters that would drive a terminal, or reverse what is read, are shown as escapes. */
export function printable(text: string): string {
  return Array.from(text, (character) =>
    isDriving(character.codePointAt(0) ?? 0) ? escaped(character) : character,
  ).join('');
}

/** As `printable`; line ends stay. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

function isDriving(code: number): boolean {
  const isControl = code < 0x20 || (code >= 0x7f && code < 0xa0);
  return isControl || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
