import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { decoders } from './decoders.ts'
import { unusedStyles } from './unused-styles.ts'

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
    // React changes with few releases: browsers keep it.
    rolldownOptions: {
      output: {
        codeSplitting: { groups: [{ name: 'react', test: /node_modules\/(?:react|react-dom|scheduler)\// }] },
      },
    },
  },
})
