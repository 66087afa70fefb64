import { readFileSync } from 'node:fs'
import type { Plugin } from 'vite'

const files = {
  draco: ['gltf/draco_wasm_wrapper.js', 'gltf/draco_decoder.wasm'],
  basis: ['basis_transcoder.js', 'basis_transcoder.wasm'],
}

/** Copies the decoders of compressed meshes and textures into the build, under the names that the 3D viewer requests. */
export function decoders(): Plugin {
  return {
    name: 'decoders',
    apply: 'build',
    generateBundle() {
      for (const [folder, paths] of Object.entries(files)) {
        for (const path of paths) {
          const source = readFileSync(new URL(import.meta.resolve(`three/addons/libs/${folder}/${path}`)))
          this.emitFile({ type: 'asset', fileName: `decoders/${folder}/${path.split('/').at(-1)}`, source })
        }
      }
    },
  }
}
