// Reads the commands of a README block and what each promises in its trailing comment.
import assert from 'node:assert/strict';

export interface Step {
  readonly command: string;
  /** `done`: already true for whoever runs this test (clone, install, build). `server`: runs until the end. */
  readonly kind: 'done' | 'server' | 'background' | 'ask';
  /** HTTP status, from a comment that begins with three digits. */
  readonly status: number | undefined;
  /** Output, from any other comment; undefined when nothing is promised. */
  readonly output: string | undefined;
}

/** Every ```sh block between the heading and the next one, as one list of lines. */
export function shellBlocks(markdown: string, heading: string): string[] {
  const lines = sectionOf(markdown, heading);
  const blocks: string[] = [];
  for (let at = lines.indexOf('```sh'); at >= 0; at = lines.indexOf('```sh', at + 1)) {
    const end = lines.indexOf('```', at);
    assert(end > at, 'the block does not end');
    blocks.push(...lines.slice(at + 1, end));
  }
  assert(blocks.length > 0, `no \`\`\`sh block after "${heading}"`);
  return blocks.join('\n').replaceAll('\\\n', ' ').split('\n');
}

/** The lines below a heading, up to the next heading. */
export function sectionOf(markdown: string, heading: string): string[] {
  const lines = markdown.split('\n');
  const start = lines.indexOf(heading);
  assert(start >= 0, `README.md has no heading "${heading}"`);
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^#{1,6} /.test(line));
  return end < 0 ? rest : rest.slice(0, end);
}

/** The first ```sh block after the heading. */
export function shellBlock(markdown: string, heading: string): string[] {
  const start = markdown.split('\n').findIndex((line) => line.trim() === heading);
  assert(start >= 0, `README.md has no heading "${heading}"`);
  const rest = markdown.split('\n').slice(start + 1);
  const from = rest.findIndex((line) => line.trim() === '```sh');
  assert(from >= 0, `no \`\`\`sh block after "${heading}"`);
  const block = rest.slice(from + 1);
  const end = block.findIndex((line) => line.trim() === '```');
  assert(end >= 0, 'the block does not end');
  // A backslash at the end continues a command.
  return block.slice(0, end).join('\n').replaceAll('\\\n', ' ').split('\n');
}

function splitComment(line: string): [command: string, comment: string | undefined] {
  let quote = '';
  for (let i = 0; i < line.length; i++) {
    const char = line[i] as string;
    if (quote !== '') {
      if (char === quote) quote = '';
    } else if (char === '"' || char === "'") {
      quote = char;
    } else if (char === '#' && (i === 0 || line[i - 1] === ' ')) {
      return [line.slice(0, i).trim(), line.slice(i + 1).trim()];
    }
  }
  return [line.trim(), undefined];
}

const DONE = /^(git clone|cd|npm (ci|install|i|run build))\b/;
const SERVER = /^(npm start|node dist\/main\.js)\b/;

export function parseSteps(lines: readonly string[]): Step[] {
  const steps: Step[] = [];
  for (const line of lines) {
    const [withAmpersand, comment] = splitComment(line);
    if (withAmpersand === '') continue;
    const command = withAmpersand.replace(/\s*&$/, '');
    const isBackground = command !== withAmpersand;
    const kind = DONE.test(command) ? 'done' : SERVER.test(command) ? 'server' : isBackground ? 'background' : 'ask';
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
