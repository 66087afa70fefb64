import { ModelViewerElement } from '@google/model-viewer'
import { type DetailedHTMLProps, type HTMLAttributes, useEffect, useRef } from 'react'

declare module 'react' {
  namespace JSX {
    interface IntrinsicElements {
      'model-viewer': DetailedHTMLProps<HTMLAttributes<HTMLElement>, HTMLElement> & {
        src: string
        alt: string
        'camera-controls': boolean
        'touch-action': string
        'shadow-intensity': string
        'interaction-prompt': string
      }
    }
  }
}

// From our own origin; by default the viewer fetches them from another host.
ModelViewerElement.dracoDecoderLocation = '/dashboard/decoders/draco/'
ModelViewerElement.ktx2TranscoderLocation = '/dashboard/decoders/basis/'

/** A viewer of a mesh (GLB), controlled by pointer, touch or arrow keys. Loaded separately, because it includes a 3D engine. */
export default function MeshViewer({
  url,
  title,
  height,
  onFailure,
}: {
  url: string
  title: string
  height: number
  onFailure: () => void
}) {
  const viewer = useRef<HTMLElement>(null)
  useEffect(() => {
    const element = viewer.current
    element?.addEventListener('error', onFailure)
    return () => element?.removeEventListener('error', onFailure)
  }, [onFailure])
  return (
    <model-viewer
      ref={viewer}
      src={url}
      alt={title}
      camera-controls
      touch-action="pan-y"
      shadow-intensity="0.6"
      interaction-prompt="none"
      style={{
        width: '100%',
        height,
        borderRadius: 'var(--mantine-radius-sm)',
        background: 'var(--mantine-color-default-hover)',
      }}
    />
  )
}
