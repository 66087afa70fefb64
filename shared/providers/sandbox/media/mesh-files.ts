import { readFileSync } from 'node:fs'

/** A cube with sides of one metre on the ground, in several formats; `files/make.sh` makes the files. */

type MeshOptions = {
  /** With a PNG as its base colour; otherwise a plain colour. */
  texture: boolean
}

/** The mesh as a binary glTF 2.0 file. */
export function meshFile({ texture }: MeshOptions = { texture: true }): Buffer {
  return read(texture ? 'cube-textured.glb' : 'cube.glb')
}

/** The mesh as a Wavefront OBJ file with the material of `cube.mtl`. */
export function objFile(): Buffer {
  return read('cube.obj')
}

/** Its material as a Wavefront MTL file, with `texture.png` if it is textured. */
export function mtlFile({ texture }: MeshOptions): Buffer {
  return read(texture ? 'cube-textured.mtl' : 'cube.mtl')
}

/** The texture of the mesh as a PNG file, a grey square. */
export function textureFile(): Buffer {
  return read('texture.png')
}

function read(name: string): Buffer {
  return readFileSync(new URL(`./files/${name}`, import.meta.url))
}
