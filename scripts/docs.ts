/** `npm run docs`: puts the table of options into README.md, between its two markers. */
import { readFileSync, writeFileSync } from 'node:fs';
import { describeOptions } from '../src/config/describe.ts';

const README = 'README.md';
const START = '<!-- options: written by npm run docs -->';
const END = '<!-- end of options -->';

const text = readFileSync(README, 'utf8');
const start = text.indexOf(START);
const end = text.indexOf(END);
if (start < 0 || end < start) throw new Error(`${README} needs the lines ${START} and ${END}`);
writeFileSync(README, `${text.slice(0, start + START.length)}\n\n${describeOptions()}\n${text.slice(end)}`);
