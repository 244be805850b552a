// Reads the commands of a document's blocks of shell, and what each promises in its trailing comment.
import assert from 'node:assert/strict';
import { blocksOf } from '../support/documents.ts';

export interface Step {
  readonly command: string;
  /**
   * `done`: already true when the test runs (clone, install, build). `server`: runs until the end. `variable`:
   * NAME=command, for later steps.
   */
  readonly kind: 'done' | 'server' | 'background' | 'variable' | 'ask';
  /** HTTP status, from a comment that begins with three digits. */
  readonly status: number | undefined;
  /** Output, from any other comment; undefined when nothing is promised. `...` stands for anything. */
  readonly output: string | undefined;
}

/**
 * Every sh block below the heading, up to the next one, as one list of lines. A backslash at the end continues a
 * command.
 */
export function shellBlocks(markdown: string, heading: string): string[] {
  const blocks = blocksOf(markdown).filter((block) => block.heading === heading && block.language === 'sh');
  assert(blocks.length > 0, `no block of sh below "${heading}"`);
  return joined(blocks.flatMap(({ lines }) => lines));
}

export function joined(lines: readonly string[]): string[] {
  return lines.join('\n').replaceAll('\\\n', ' ').split('\n');
}

function splitComment(line: string): [command: string, comment: string | undefined] {
  let quote = '';
  for (let i = 0; i < line.length; i++) {
    const char = line[i] as string;
    if (quote !== '') {
      if (char === '\\' && quote === '"') i++;
      else if (char === quote) quote = '';
    } else if (char === '"' || char === "'") {
      quote = char;
    } else if (char === '#' && (i === 0 || line[i - 1] === ' ')) {
      return [line.slice(0, i).trim(), line.slice(i + 1).trim()];
    }
  }
  return [line.trim(), undefined];
}

const DONE = /^(git clone|cd|npm (ci|install|i|run build))\b/;
const SERVER = /^(npm start|npm run cluster|node dist\/main\.js)\b/;
const VARIABLE = /^[A-Z]+=/;

function kindOf(command: string, isBackground: boolean): Step['kind'] {
  if (DONE.test(command)) return 'done';
  if (SERVER.test(command)) return 'server';
  if (VARIABLE.test(command)) return 'variable';
  return isBackground ? 'background' : 'ask';
}

export function parseSteps(lines: readonly string[]): Step[] {
  const steps: Step[] = [];
  for (const line of lines) {
    const [withAmpersand, comment] = splitComment(line);
    if (withAmpersand === '') continue;
    const command = withAmpersand.replace(/\s*&$/, '');
    const kind = kindOf(command, command !== withAmpersand);
    const promises = kind === 'ask' ? comment : undefined;
    const status = /^(\d{3})\b/.exec(promises ?? '')?.[1];
    steps.push({
      command,
      kind,
      status: status === undefined ? undefined : Number(status),
      output: status === undefined ? promises : undefined,
    });
  }
  return steps;
}

/** Is this what the comment promises? */
export function keepsPromise(output: string, promised: string): boolean {
  const parts = promised.split('...').map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&'));
  return new RegExp(`^${parts.join('[^]*')}$`).test(output.trim());
}
