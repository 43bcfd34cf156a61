//! Eigenvalues of small symmetric matrices, by Jacobi's rotations. Source: G. H. Golub, C. F. Van Loan, *Matrix Computations*, 8.5.

/// Times that all pairs are rotated at most; a handful is enough.
const SWEEPS: u32 = 60;

/// The eigenvalues of `matrix`, which is symmetric, and their vectors.
pub(super) fn eigen(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let count = matrix.len();
    let unit = |at: usize| (0..count).map(|column| f64::from(u8::from(at == column))).collect();
    let mut vectors: Vec<Vec<f64>> = (0..count).map(unit).collect();
    let pairs: Vec<(usize, usize)> =
        (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second))).collect();
    for _ in 0..SWEEPS {
        for &(first, second) in &pairs {
            let [own, other] = [matrix[first][first], matrix[second][second]];
            let shared = matrix[first][second];
            if shared.abs() <= 1e-13 * (own.abs() + other.abs()) {
                continue;
            }
            let ratio = (other - own) / (2.0 * shared);
            let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let turn = (cosine, tangent * cosine);
            for row in &mut matrix {
                (row[first], row[second]) = turned(turn, (row[first], row[second]));
            }
            for rows in [&mut matrix, &mut vectors] {
                let (before, after) = rows.split_at_mut(second);
                for (one, other) in before[first].iter_mut().zip(&mut after[0]) {
                    (*one, *other) = turned(turn, (*one, *other));
                }
            }
        }
    }
    ((0..count).map(|at| matrix[at][at]).collect(), vectors)
}

fn turned((cosine, sine): (f64, f64), (one, other): (f64, f64)) -> (f64, f64) {
    (cosine * one - sine * other, sine * one + cosine * other)
}
