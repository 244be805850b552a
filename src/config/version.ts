/** Equal to `version` in package.json (a test compares them): what runs does not have to find that file. */
export const VERSION = '0.1.0';
