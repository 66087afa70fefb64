import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { decoders } from './decoders.ts'
import { unusedStyles } from './unused-styles.ts'

/** What fewer pages need is loaded with these alone. */
const pagesThatShare = 8

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  plugins: [react(), decoders(), unusedStyles()],
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    // Which files a page needs, for page-links.ts.
    manifest: true,
    target: 'es2024',
    // Every supported browser preloads modules natively.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            // React changes with few releases: browsers keep it.
            { name: 'react', test: /node_modules\/(?:react|react-dom|scheduler)\//, priority: 2 },
            // What every page waits for, before it is known which one it is.
            { name: 'application', tags: ['$initial'], priority: 1 },
            // Without it, a page has some seventy files, each of a component or an icon: a browser loads six at a time over HTTP/1.1.
            { name: 'shared', minShareCount: pagesThatShare },
          ],
        },
      },
    },
  },
})
