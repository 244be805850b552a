import process from 'node:process';

/** `npm run check` sets it: tests that have a long form run it, with every peer, version and point of failure. */
export const IS_THOROUGH: boolean = process.env['THOROUGH'] === '1';
