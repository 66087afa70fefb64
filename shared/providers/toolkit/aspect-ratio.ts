/** Whether a size in pixels has exactly an aspect ratio such as `16:9`. */
export function hasRatio({ width, height }: { width: number; height: number }, ratio: string): boolean {
  const [across, down] = ratio.split(':').map(Number)
  return width * down! === height * across!
}
